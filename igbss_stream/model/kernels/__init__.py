"""Compiled functions: the only modules that import numba.

::

    jit            the one decorator by which functions are compiled
    loglinear      p, eta, the Fisher information and natural-gradient steps
    learning       likelihood and joint diagonalisation, for learning a structure
    interactions   products of sources
    samples        scans and matrix products over blocks of samples
"""
