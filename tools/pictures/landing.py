"""How a batch lands: the steps of src/ashore/topics/loop/slice_loop.py, without publishing."""

from .shapes import Box, Kind, Line, Picture, Text

PICTURE = Picture(
    "landing",
    "How a batch lands",
    "Spark tasks read offset ranges of topics and write staged files, which no reader sees. A "
    "prepare entry in the landing log makes them count. Then they are moved to the table.",
    800,
    250,
    (
        Box(10, 30, 130, 70, ("topics", "in Kafka")),
        Box(220, 30, 130, 70, ("Spark tasks", "decode, route")),
        Box(424, 30, 146, 70, ("staged files", "no reader sees them"), Kind.STAGED),
        Box(660, 30, 130, 70, ("table", "only final files"), Kind.TABLE),
        Box(
            220,
            170,
            350,
            62,
            ("landing log", "open · join · prepare 41 · prepare 42 · …"),
            Kind.LOG,
        ),
        Line(((140, 65), (218, 65))),
        Text(179, 56, "1 plan"),
        Line(((350, 65), (422, 65))),
        Text(386, 56, "2 write"),
        Line(((497, 100), (497, 168))),
        Text(540, 140, "3 prepare"),
        Line(((570, 65), (658, 65))),
        Text(614, 56, "4 move"),
        Line(((285, 168), (285, 102))),
        Text(240, 132, "where to"),
        Text(236, 147, "read from"),
    ),
)
