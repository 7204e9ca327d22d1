"""The pages that a browser shows: HTML made on the server, live by events, one small script.

What it is: `routes.pages_router` over view models, frozen values that pure functions make of what
use cases return; templates only lay them out.
What it promises: each page says what is so and what to do next, also where something cannot be
read. It works without the script; nothing is loaded from elsewhere.
"""
