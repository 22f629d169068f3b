/**
 * Node between browser and relay, as in Backstage: HTTP upgrades on TCP are joined to the relay's
 * Unix socket, and bytes pass untouched (the plugin's `upgrade/tunnel.ts`).
 *
 * Usage: node node-pipe.mjs SOCKET; says its port as a line of JSON, ends with stdin.
 */
import http from 'node:http';
import process from 'node:process';

const [socketPath] = process.argv.slice(2);

const server = http.createServer((_, response) => response.writeHead(404).end());
server.on('upgrade', (request, near, head) => {
  near.on('error', () => near.destroy());
  const { url: path, headers } = request;
  const onward = http.request({ socketPath, path, headers });
  onward.on('error', () => near.destroy());
  onward.on('response', () => near.destroy());
  onward.on('upgrade', (answer, far, rest) => {
    far.on('error', () => far.destroy());
    near.setNoDelay(true);
    near.write(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
        `Sec-WebSocket-Accept: ${answer.headers['sec-websocket-accept']}\r\n\r\n`,
    );
    if (head.length > 0) near.unshift(head);
    if (rest.length > 0) far.unshift(rest);
    near.pipe(far);
    far.pipe(near);
  });
  onward.end();
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify({ port: server.address().port })}\n`);
});
process.stdin.on('end', () => process.exit(0)).resume();
