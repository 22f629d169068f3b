import type { FormApi } from './api';

export * from './api';

/** Loads the module once; later calls share it. */
export declare function load(): Promise<FormApi>;
