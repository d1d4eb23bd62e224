// A cache of N objects behind HTTP on a Unix socket: node cache.js SOCKET N.
//
// GET /k00000007 answers the object of key 7 as JSON, which begins with {"id":7. Every 16th answer
// makes the object anew, as a cache does whose entries expire.
'use strict';
const http = require('http');

const [socket, n] = [process.argv[2], Number(process.argv[3])];

function entry(key) {
  let x = (key * 2654435761) >>> 0 || 1;
  const tags = [];
  for (let i = 0; i < 12; i++) {
    x ^= x << 13; x ^= x >>> 17; x ^= x << 5;
    tags.push({ name: (x >>> 0).toString(16).padStart(8, '0') + key, state: 'active', n: x * 0.5 });
  }
  return { id: key, tags };
}

const entries = new Map();
for (let key = 0; key < n; key++) entries.set(key, entry(key));

let answers = 0;
const server = http.createServer((request, response) => {
  const key = Number(request.url.slice(2));
  if (!entries.has(key)) {
    response.writeHead(404).end();
    return;
  }
  if (++answers % 16 === 0) entries.set(key, entry(key));
  response.end(JSON.stringify(entries.get(key)));
});
// The client keeps its one connection, also while it does not ask.
server.keepAliveTimeout = 0;
server.listen(socket);
process.on('SIGTERM', () => process.exit(0));
