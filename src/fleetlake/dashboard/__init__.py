"""The dashboard: pages over the published snapshot, for people, read-only and without internet.

A page is a file in `pages/`: its panels, the SQL of each, and what each filter means there. The
server runs that SQL over the newest published snapshot; small scripts in `static/` draw the rows.
Nothing here opens the lake.
"""
