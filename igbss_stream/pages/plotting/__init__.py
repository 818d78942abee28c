"""Draw for reports and the live page.

::

    scales     round numbers, colours of weights, units
    columns    reduce samples to the columns of a picture
    scalp      maps of the scalp
    spectrum   power spectra
    svg, png   encode drawings
"""
