import type { FormApi } from './api';

export * from './api';

/** The decisions, ready when the module is. */
export declare const decisions: FormApi;
/** The same, for code that also runs with entries that load. */
export declare function load(): Promise<FormApi>;
