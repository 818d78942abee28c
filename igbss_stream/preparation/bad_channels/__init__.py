"""Leave bad channels out of a stream while they are bad.

::

    settings    settings of the stage
    stage       replace the samples of bad channels by what the other channels predict
    events      what the stage reports
    predictor   covariance of the channels, and the prediction of some from the others
    recent      look back from each sample at those before it
    leaps       find single samples that are far from what the other channels predict
    stuck_runs  find channels that repeat a value, or have none, for longer than they usually do
    fades       cross-fade to the samples of channels that are good again
    cells       judge the channels of a second of samples
"""
