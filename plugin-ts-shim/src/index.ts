/**
 * The Backstage backend plugin `glidepath`: break-glass sessions on the pods of an app.
 *
 * @packageDocumentation
 */
export { glidepathPlugin as default } from './plugin';
export * from './permissions';
