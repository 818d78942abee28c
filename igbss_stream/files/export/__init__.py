"""Sources of an output of `batch` as EDF, BDF and BrainVision (extra ``export``).

`command` is the command `export`; `content` is what is written, and what its numbers are like; `records`
cuts it into the records of EDF; `edf` and `brainvision` write.
"""
