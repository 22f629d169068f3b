/**
 * The Node server that the relay is measured beside: `@kubernetes/client-node` towards the pod,
 * `ws` towards the browser, and a recorder between that writes the same asciicast with the same
 * SHA-256 while it passes output on: recorded first, as ours.
 *
 * It is written as one writes such a server: one event per chunk. Orders come on stdin and answers
 * go to stdout, a line of JSON each, as with the other relays.
 *
 * Usage: node node-baseline.mjs --kubeconfig FILE --pod NAME --dir FOLDER
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import process from 'node:process';
import readline from 'node:readline';
import { PassThrough, Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { parseArgs } from 'node:util';
import { Attach, KubeConfig } from '@kubernetes/client-node';
import { WebSocketServer } from 'ws';

const NAMESPACE = 'bench';
const CONTAINER = 'shell';

const text = { type: 'string' };
const { values } = parseArgs({ options: { kubeconfig: text, pod: text, dir: text } });

/** An asciicast v2 in a file, hashed while it is written. */
class Recorder {
  #hash = createHash('sha256');
  #bytes = 0;
  #start = process.hrtime.bigint();
  // The source writes valid UTF-8, so no line is needed for bytes that are none.
  #decoders = { o: new StringDecoder('utf8'), i: new StringDecoder('utf8') };

  constructor(file) {
    this.file = file;
    this.fd = fs.openSync(file, 'ax', 0o600);
    const timestamp = Math.floor(Date.now() / 1000);
    const title = 'a session of the benchmark';
    const env = { TERM: 'xterm-256color' };
    this.#line(JSON.stringify({ version: 2, width: 80, height: 24, timestamp, title, env }));
  }

  /** Records a chunk; a character that is cut waits for its rest. */
  write(code, chunk) {
    const data = this.#decoders[code].write(chunk);
    if (data !== '') this.#event(code, data);
  }

  resize(cols, rows) {
    this.#event('r', `${cols}x${rows}`);
  }

  finish() {
    fs.closeSync(this.fd);
    return { path: this.file, bytes: this.#bytes, sha256: this.#hash.digest('hex') };
  }

  #event(code, data) {
    const seconds = Number(process.hrtime.bigint() - this.#start) / 1e9;
    this.#line(`[${seconds.toFixed(6)}, "${code}", ${JSON.stringify(data)}]`);
  }

  #line(line) {
    const bytes = Buffer.from(`${line}\n`);
    fs.writeSync(this.fd, bytes);
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
  }
}

/** One session: attached and recorded, waiting for its browser. */
class Session {
  #browser;
  #stdin = new PassThrough();
  #stdout;

  constructor(file) {
    this.recorder = new Recorder(file);
    const output = chunk => {
      this.recorder.write('o', chunk);
      this.#browser?.send(chunk, { binary: true });
    };
    this.#stdout = new Writable({
      write(chunk, _, done) {
        output(chunk);
        done();
      },
    });
    // What `Attach` asks a terminal for, to pass its size on.
    this.#stdout.columns = 80;
    this.#stdout.rows = 24;
  }

  async attach(kubeConfig, pod) {
    const attach = new Attach(kubeConfig);
    const [stdout, stdin] = [this.#stdout, this.#stdin];
    await attach.attach(NAMESPACE, pod, CONTAINER, stdout, null, stdin, true);
  }

  serve(browser) {
    this.#browser = browser;
    browser.on('message', message => this.#frame(JSON.parse(message.toString())));
  }

  #frame({ type, data, cols, rows }) {
    if (type === 'input') {
      const typed = Buffer.from(data);
      this.recorder.write('i', typed);
      this.#stdin.write(typed);
    } else if (type === 'resize') {
      this.recorder.resize(cols, rows);
      Object.assign(this.#stdout, { columns: cols, rows });
      this.#stdout.emit('resize');
    }
  }
}

const kubeConfig = new KubeConfig();
kubeConfig.loadFromFile(values.kubeconfig);
// The library refuses plain HTTP otherwise; there is no certificate to skip then.
const cluster = kubeConfig.getCurrentCluster();
if (cluster.server.startsWith('http://')) cluster.skipTLSVerify = true;
const sessions = [];

const server = http.createServer((_, response) => response.writeHead(404).end());
const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
server.on('upgrade', (request, socket, head) => {
  const session = sessions[Number(request.url.slice(1))];
  if (session === undefined) socket.destroy();
  else sockets.handleUpgrade(request, socket, head, browser => session.serve(browser));
});

const say = answer => process.stdout.write(`${JSON.stringify(answer)}\n`);
let since = process.cpuUsage();

async function obey(order) {
  if (order === 'stop') {
    const recordings = sessions.map(session => session.recorder.finish());
    const { user, system } = process.cpuUsage(since);
    say({ cpuSeconds: (user + system) / 1e6, recordings });
    return;
  }
  for (let more = order.open; more > 0; more -= 1) {
    const session = new Session(path.join(values.dir, `${sessions.length}.cast`));
    await session.attach(kubeConfig, values.pod);
    sessions.push(session);
  }
  since = process.cpuUsage();
  say({ open: sessions.length });
}

server.listen(path.join(values.dir, 'relay.sock'), async () => {
  say({ ready: true });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    await obey(JSON.parse(line));
  }
  process.exit(0);
});
