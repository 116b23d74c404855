"""The dashboard: static files that a browser runs as they are, without a build step.

`static/` has one page, style sheets by layer (css/), ES modules by job (js/) and the words by language (i18n/). Belongs
here: what the page shows and asks, through the REST API alone. Never: a rule, a route, a library from elsewhere.
"""
