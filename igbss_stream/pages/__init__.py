"""Draw plots, reports and the live page.

::

    plotting/   drawing for reports and the live page
    report/     HTML report on an output
    view/       live page in the browser
    markup      safe HTML, formatted numbers
"""
