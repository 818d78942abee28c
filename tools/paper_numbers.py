"""What the paper's tables 1, 2 and 3 report: means, and deviations over 40 runs where they are not zero."""

# RMSE by experiment and method; "IGBSS" of the time series is (min-max, exp).
RMSE = {
    "time series, order 1": {"IGBSS": "0.702, 0.703", "FastICA": "0.414 ± 0.286"},
    "time series, order 2": {"IGBSS": "0.921, 0.921", "FastICA": "1.700 ± 0.167"},
    "time series, order 3": {"IGBSS": "0.967, 0.961", "FastICA": "1.388 ± 0.178"},
    "images 1, order 1": {"IGBSS": "0.252", "FastICA": "0.300 ± 0.089", "DL": "0.394", "NMF": "0.622"},
    "images 1, order 2": {"IGBSS": "0.260", "FastICA": "0.285 ± 0.096", "DL": "0.441", "NMF": "0.662"},
    "images 1, order 3": {"IGBSS": "0.252", "FastICA": "0.260 ± 0.111", "DL": "0.362", "NMF": "0.612"},
    "images 2, order 1": {"IGBSS": "0.133", "FastICA": "0.284 ± 0.064", "DL": "0.474", "NMF": "0.591"},
    "images 2, order 2": {"IGBSS": "0.256", "FastICA": "0.263 ± 0.066", "DL": "0.576", "NMF": "0.684"},
    "images 2, order 3": {"IGBSS": "0.282", "FastICA": "0.239 ± 0.056", "DL": "0.593", "NMF": "0.665"},
    "images 3, order 1": {"IGBSS": "0.155", "FastICA": "0.699 ± 0.047", "DL": "0.478", "NMF": "0.628"},
    "images 3, order 2": {"IGBSS": "0.200", "FastICA": "0.280 ± 0.049", "DL": "0.515", "NMF": "0.709"},
    "images 3, order 3": {"IGBSS": "0.203", "FastICA": "0.239 ± 0.056", "DL": "0.536", "NMF": "0.682"},
    "point cloud": {"IGBSS": "1.421", "FastICA": "1.445", "PCA": "2.011"},
}

# Signal to noise in dB, likewise.
SNR = {
    "time series, order 1": {"IGBSS": "3.6, 3.6", "FastICA": "15.4 ± 3.8"},
    "time series, order 2": {"IGBSS": "0.3, 0.0", "FastICA": "-5.8 ± 1.1"},
    "time series, order 3": {"IGBSS": "0.3, 0.1", "FastICA": "-3.4 ± 1.2"},
    "images 1, order 1": {"IGBSS": "12.6", "FastICA": "11.7 ± 4.8", "DL": "6.8", "NMF": "1.7"},
    "images 1, order 2": {"IGBSS": "10.7", "FastICA": "12.4 ± 4.3", "DL": "0.5", "NMF": "-3.4"},
    "images 1, order 3": {"IGBSS": "12.6", "FastICA": "12.9 ± 5.6", "DL": "1.5", "NMF": "0.0"},
    "images 2, order 1": {"IGBSS": "14.2", "FastICA": "11.2 ± 2.0", "DL": "2.1", "NMF": "-0.9"},
    "images 2, order 2": {"IGBSS": "10.6", "FastICA": "12.0 ± 2.2", "DL": "-1.6", "NMF": "-3.7"},
    "images 2, order 3": {"IGBSS": "9.3", "FastICA": "11.5 ± 2.1", "DL": "-2.3", "NMF": "-4.1"},
    "images 3, order 1": {"IGBSS": "11.3", "FastICA": "10.8 ± 2.2", "DL": "1.4", "NMF": "0.6"},
    "images 3, order 2": {"IGBSS": "10.9", "FastICA": "10.2 ± 2.4", "DL": "0.5", "NMF": "-5.6"},
    "images 3, order 3": {"IGBSS": "11.1", "FastICA": "11.0 ± 2.7", "DL": "-0.2", "NMF": "-5.0"},
    "point cloud": {"IGBSS": "27.5", "FastICA": "27.4", "PCA": "26.0"},
}
