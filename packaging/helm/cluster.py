#!/usr/bin/env python3
"""The little of an API server that helm asks for labels of namespaces, for the chart's tests.

    cluster.py ADDRESS-FILE NAME[=LABEL,...]...    serves these namespaces, until it is ended

Helm asks a cluster for labels only, which no test of rendered files shows. `ADDRESS-FILE` gets the
address when it answers. It keeps nothing, takes nothing, and knows namespaces only.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


def namespace(word):
    name, _, labels = word.partition("=")
    pairs = dict(label.split(":", 1) for label in labels.split(",") if label)
    return {"metadata": {"name": name, "labels": pairs}, "kind": "Namespace", "apiVersion": "v1"}


ADDRESS, NAMESPACES = sys.argv[1], [namespace(word) for word in sys.argv[2:]]
RESOURCE = {"name": "namespaces", "singularName": "namespace", "namespaced": False, "kind": "Namespace",
            "verbs": ["get", "list"]}
ANSWERS = {
    "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [RESOURCE]},
    "/api/v1/namespaces": {"kind": "NamespaceList", "apiVersion": "v1", "metadata": {}, "items": NAMESPACES},
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        found = ANSWERS.get(self.path.split("?")[0].rstrip("/"))
        body = json.dumps(found or {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
with open(ADDRESS + ".new", "w", encoding="utf-8") as file:
    file.write(f"http://127.0.0.1:{server.server_port}")
os.rename(ADDRESS + ".new", ADDRESS)
server.serve_forever()
