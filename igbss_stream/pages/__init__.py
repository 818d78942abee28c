"""Plots, reports and the live page.

::

    plotting/   what reports and the live page draw
    report/     the HTML report on an output
    view/       the live page in the browser
"""
