"""Samples as messages: formats, sockets, publishers.

::

    wire             encode and decode messages (docs/wire.md)
    addresses        parse socket addresses
    sockets          create ZeroMQ sockets
    socket_monitor   watch the handshake of a connection
    zmq_receiver     receive and check messages from ZeroMQ
    zmq_publisher    publish on ZeroMQ
    openephys        decode messages of the Open Ephys GUI
    sequencer        order messages by sample index; declare gaps
    timestamps       assign sample indices to timestamps
    liblsl           load the LSL library (extra `lsl`)
    lsl_inlet        read an LSL stream
    lsl_publisher    publish an LSL stream
"""
