"""Where sources go. Each module writes blocks of (samples, sources) to one kind of sink.

`hdf5` writes a file that is complete or not there (`hdf5_storage`: in one piece or compressed), `recording`
one that grows while a stream comes (by `hdf5_growing` and `hdf5_header`); `zmq` publishes on a socket, and
`lsl` as an outlet. `files` is what every writer of files shares.
"""
