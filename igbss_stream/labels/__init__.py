"""Label sources of EEG without reference channels.

Pure functions of arrays; nothing is learned, and nothing is downloaded. docs/labels.md has the formulas.

::

    labelling    `label_sources`: the labels of sources, with scores and reasons
    maps         facts of the maps: frontal, lateral, in one channel
    spectra      facts of the spectra: mains, alpha, high frequencies
    courses      facts of the courses: deflections, rhythm, bursts
    scores       from facts to scores
    reasons      from facts to words
"""
