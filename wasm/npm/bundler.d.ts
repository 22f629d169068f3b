import type { DecisionsApi } from './api';

export * from './api';

/** The decisions, ready when the module is. */
export declare const decisions: DecisionsApi;
/** The same, for code that also runs with entries that load. */
export declare function load(): Promise<DecisionsApi>;
