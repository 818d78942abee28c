"""Functions compiled by numba; no other module imports numba.

::

    jit            the decorators that compile functions
    loglinear      p, eta, Fisher information and natural-gradient steps
    learning       likelihood and joint diagonalisation, to learn a structure
    interactions   learning with products of sources
    channels       watch the channels of a stream: unusable samples, runs, deviations
    samples        scans and matrix products over blocks of samples
    substitutes    the same in NumPy, for samples too few to import numba
"""
