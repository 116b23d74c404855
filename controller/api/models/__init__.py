"""What goes over the wire, one file per resource: the OpenAPI document is made of these.

Belongs here: names, types, bounds, what each field means, made from the operations' values by their attributes. Never:
working anything out.
"""
