"""Convert separations to `mne.preprocessing.ICA`, with working plots, apply and save.

Requires the extra ``mne``. See docs/interoperate.md for examples and `igbss_stream.separation.pca_form` for
the formulas.

::

    fit        `fit_ica`: separate a Raw or Epochs
    samples    the samples to learn from, by the parameters of MNE
    output     `ica_of_output`, `raw_of_output`: read an output of `batch`; `sources_of`: sources as a Raw
    fif        write samples of our files as FIF
    labels     `label_sources`: eye, heart, muscle ... in `ica.labels_`
    convert    a linear separation as MNE's ICA
"""

from igbss_stream._util.optional import describe_missing

try:
    import mne as _mne  # noqa: F401
except ImportError as error:
    raise ImportError(describe_missing("mne", "igbss_stream.mne works on a Raw of MNE", error)) from error

from igbss_stream.mne.fit import fit_ica
from igbss_stream.mne.labels import label_sources
from igbss_stream.mne.output import ica_of_output, raw_of_output, sources_of

__all__ = ["fit_ica", "ica_of_output", "label_sources", "raw_of_output", "sources_of"]
