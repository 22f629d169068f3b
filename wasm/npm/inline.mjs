// Browsers behind any bundler: the module travels as text in a chunk of its own. It needs no rule
// for `.wasm`, no `import.meta` and no extra request; a content security policy has to allow
// `'wasm-unsafe-eval'`. The text is of the module in gzip: text of the module itself is a quarter
// larger on the wire, because no compression finds again what base64 has shifted.
import { bind, DecisionInputError } from './dist/facade.mjs';

let loading;

async function start() {
  const [door, { base64 }] = await Promise.all([
    import('./dist/bundler/decisions_bg.js'),
    import('./dist/inline/bytes.mjs'),
  ]);
  const packed = Uint8Array.from(atob(base64), char => char.charCodeAt(0));
  const module = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const bytes = await new Response(module).arrayBuffer();
  const { instance } = await WebAssembly.instantiate(bytes, { './decisions_bg.js': door });
  door.__wbg_set_wasm(instance.exports);
  instance.exports.__wbindgen_start?.();
  return bind(door);
}

export function load() {
  loading ??= start().catch(error => {
    loading = undefined; // a chunk that could not be fetched may be fetched later
    throw error;
  });
  return loading;
}

export { DecisionInputError };
