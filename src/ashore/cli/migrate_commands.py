"""The commands of `ashore migrate`.

What it must not know: what they do.
"""

from ashore.cli.migrate_apply_command import migrate_apply
from ashore.cli.migrate_check_command import migrate_check
from ashore.cli.migrate_undo_command import migrate_undo
from ashore.cli.options import new_group

migrate = new_group("Change the SQL of a job and keep its state.")
migrate.command("check")(migrate_check)
migrate.command("apply")(migrate_apply)
migrate.command("undo")(migrate_undo)
