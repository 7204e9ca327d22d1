"""What a job exports to Prometheus, made of the events of its job process.

What it is: `JobMetrics` counts, `exported` shows; `families` says what there is; `traces` is for
OpenTelemetry.
"""
