import type { DecisionsApi } from './api';

export * from './api';

/** Loads the module once; later calls share it. */
export declare function load(): Promise<DecisionsApi>;
