"""What is done to samples before they are separated: re-reference, filter, resample, in this order.

`settings` says what; `referencing`, `filters` and `resampling` do it, on `rows`; `recording` prepares a
recording with zero phase (`zero_phase`), `live` a stream as it comes. docs/preparing.md defines all of it.
"""
