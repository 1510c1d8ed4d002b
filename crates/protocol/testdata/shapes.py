#!/usr/bin/env python3
"""Writes shapes.txt from Kafka's message schemas: `shapes.py DIR > shapes.txt`, DIR being `common/message` of kafka-clients."""
import json, os, re, sys

FIXED = {'bool': 1, 'int8': 1, 'int16': 2, 'uint16': 2, 'int32': 4, 'uint32': 4, 'int64': 8, 'float64': 8, 'uuid': 16}

def load(path):
    lines = open(path).read().split('\n')
    return json.loads('\n'.join(re.sub(r'^\s*//.*$', '', line) for line in lines))

def versions(text):
    return text.replace('none', '-')

def kind(base, fields, common):
    if base in FIXED:
        return str(FIXED[base])
    if base in ('string', 'bytes', 'records'):
        return {'string': 's', 'bytes': 'b', 'records': 'b'}[base]
    return '( ' + shape(fields or common[base], common) + ' )'

def shape(fields, common):
    out = []
    for f in fields:
        text = f['type']
        array = text.startswith('[]')
        base = text[2:] if array else text
        spec = '@' + f['versions']
        if 'nullableVersions' in f and not array and base not in FIXED and base not in ('string', 'bytes', 'records'):
            spec += '?' + f['nullableVersions']
        if 'tag' in f:
            spec += '#%d#%s' % (f['tag'], f['taggedVersions'])
        out.append(('*' if array else '') + kind(base, f.get('fields'), common) + spec)
    return ' '.join(out)

rows = []
directory = sys.argv[1]
for name in sorted(os.listdir(directory)):
    if not name.endswith('.json'):
        continue
    m = load(os.path.join(directory, name))
    if m['type'] not in ('request', 'response') or m['validVersions'] == 'none':
        continue
    common = {s['name']: s['fields'] for s in m.get('commonStructs', [])}
    rows.append((m['apiKey'], m['type'], versions(m['flexibleVersions']), shape(m['fields'], common)))
for row in sorted(rows):
    print('%d %s %s %s' % row)
