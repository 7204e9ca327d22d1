"""What runs the tasks of a batch: processes of this machine, or Spark."""
