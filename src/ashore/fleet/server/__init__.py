"""The control plane over HTTP: REST, metrics and pages over the jobs of one server.

What it is: `create_app`, and `serve`, which runs it.
What it promises: it decides nothing: verbs and operations are those of `ashore.fleet`. No handler
waits for a disk, a lake or Kafka on the event loop. Spark is never loaded.
"""
