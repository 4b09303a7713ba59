/** What the demo uses of asciichart, which brings no types. */
declare module 'asciichart' {
  interface Options {
    min?: number;
    max?: number;
    height?: number;
    offset?: number;
    symbols?: readonly string[];
    format?: (value: number) => string;
  }
  export function plot(series: readonly number[], options?: Options): string;
}
