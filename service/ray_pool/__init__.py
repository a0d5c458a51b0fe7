"""The service on Ray Serve: the same app, and behind it replicas on the cards of a cluster.

Decision: nothing that Serve does is done here. It places replicas, starts dead ones again, scales them with
the load, chooses the one with the least to do, batches, holds several models in one replica and drains at the
end. What is ours is the app (admission, single flight, the protocols) and what a replica runs, the same
`Drawer` as a child process.
"""
