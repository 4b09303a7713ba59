/** The public exports of `oom-guard`. */
export * from './counting';
