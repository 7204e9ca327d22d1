"""What a job exports to Prometheus, made of the events of its job process.

What it is: `JobMetrics` counts, `exported` shows; `families` says what there is; `traces` is for
OpenTelemetry.
"""

from ashore.jobs.metrics.export import exported
from ashore.jobs.metrics.families import FAMILIES, Family
from ashore.jobs.metrics.job_metrics import JobMetrics

__all__ = ["FAMILIES", "Family", "JobMetrics", "exported"]
