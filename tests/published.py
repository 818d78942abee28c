"""The structure of the paper, fixed before it sees data, for the many tests that are about the model."""

from functools import partial

import igbss_stream
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.sklearn import IGBSS

separate = partial(igbss_stream.separate, structure="systematic")
model_settings = partial(ModelSettings, structure="systematic")
estimator = partial(IGBSS, structure="systematic")
