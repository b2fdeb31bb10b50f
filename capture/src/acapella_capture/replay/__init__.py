"""Replay traffic with acapella-dpdk-replay (`acapella replay`): files, bridges, and their control.

``program.py`` runs the program and implements its pipe protocol. ``channel.py`` and ``messages.py`` define the control
channel, ``agent.py`` is the replayer's side, ``controller.py`` and ``actions.py`` are the user's side.
``departures.py`` converts the program's departures to Parquet; ``clocks.py`` and ``skew.py`` compare clocks and starts
of replayers.
"""
