"""The service on Ray Serve: the same app, with replicas on the GPUs of a cluster.

This package repeats nothing that Serve does: it places replicas, restarts dead ones, scales with the load,
chooses the replica with the least work, batches, multiplexes several models per replica and drains at the
end. The app (admission, sharing, protocols) and the code that a replica runs, the same `Drawer` as in the
service's own process, belong to this package.
"""
