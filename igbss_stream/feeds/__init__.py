"""Receive and publish streams of samples: message format, ZeroMQ, LSL, Open Ephys.

::

    wire             encode and decode messages (docs/wire.md)
    model_facts      what a description states on a model
    sequencer        order messages by sample index; declare gaps
    sequencer_counts counts of messages and samples by a sequencer
    timestamps       assign sample indices by timestamps; declare gaps
    addresses        parse socket addresses
    keys             CURVE keys
    sockets          helpers for ZeroMQ sockets
    authenticator    authenticate clients by their public keys
    socket_monitor   monitor the handshakes of a connection
    endpoint         open a ZeroMQ socket
    zmq_receiver     receive and check messages from ZeroMQ
    zmq_publisher    publish a stream on ZeroMQ
    openephys        decode messages of the Open Ephys GUI
    liblsl           load the LSL library (extra `lsl`)
    lsl_units        convert unit names of LSL
    lsl_inlet        read an LSL stream
    lsl_publisher    publish an LSL stream
"""
