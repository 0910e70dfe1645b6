"""Directory: Thing Descriptions that others have registered, and how all things are found (W3C WoT Discovery).

Pure, but for the file of registrations: time comes in as Unix nanoseconds, changes go out. HTTP is in `web/directory_api.py`.
Read `registered_things.py` first; `validation.py` says which descriptions are accepted, `attribute_search.py` and
`jsonpath_search.py` find some, `changes.py` says which event a user gets.
"""
