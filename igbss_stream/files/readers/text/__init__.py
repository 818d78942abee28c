"""Text with columns of numbers.

::

    lines    encoding, lines and rows
    cells    numbers and times in cells
    table    detect delimiter, decimal mark, names and units
    heads    what the heads of OpenBCI, OpenSignals, Emotiv, LabVIEW and LabChart state
    columns  choose the columns to read
    clock    gaps and rate from columns of times and counters
    parse    lines to numbers
    reader   `open_text`
"""
