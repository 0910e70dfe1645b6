"""House Hub: devices say what they measure, the hub decides, devices are told what to do.

The example of the dispatcher's paper, in its three kinds of handlers, a file each: `incoming` validates messages and unpacks
them into data, `business` reacts to what has changed, `outgoing` collects data into messages. Each is a plain function that
knows neither of the others. Read `messages.py` and `data.py` first; `hub.py` ties all together.
"""
