"""What a cluster showed, kept in a file and classified without the cluster (contract, section 14).

================  ======================================================================
module            does
================  ======================================================================
``format``        the lines of a recording, read and written
``replaying``     a recording through the hub's own store, up to any moment
``dump``          a ``kubectl get -o json`` List, classified as it stands
``redaction``     what is taken out of an object before it is written down
``recorder``      a hub that writes down all that its watches bring
================  ======================================================================
"""
