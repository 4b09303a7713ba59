/** The package has no types of its own. */
declare module 'node-gyp-build' {
  /** Loads the addon that fits this runtime from `build/` or `prebuilds/` below a directory. */
  export default function load(directory: string): unknown;
}
