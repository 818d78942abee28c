"""Receive and publish streams of samples: message format, ZeroMQ, LSL, Open Ephys.

::

    wire             decode messages (docs/wire.md)
    encoder          encode messages
    event_rows       the events in a message
    model_facts      what a description states on a model
    cleaning_facts   what it states on the sources that are taken out
    control_client   ask a daemon to take sources out
    sequencer        order messages by sample index; declare gaps
    placed_message   a message with its position
    sequencer_counts counts of messages and samples by a sequencer
    event_sequencer  assign output indices to received events
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
    lsl_locations    positions of channels in LSL
    lsl_inlet        read an LSL stream
    lsl_publisher    publish an LSL stream
"""
