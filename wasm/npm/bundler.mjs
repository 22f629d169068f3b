// Bundlers that take WebAssembly as a module (webpack's `experiments.asyncWebAssembly`, Vite's
// plugin). Where the bundler does not, use `./inline`.
import * as door from './dist/bundler/decisions.js';
import { bind, DecisionInputError } from './dist/facade.mjs';

export const decisions = bind(door);
export const load = async () => decisions;
export { DecisionInputError };
