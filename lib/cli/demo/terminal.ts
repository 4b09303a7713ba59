/** What the terminal can do, and a progress line that suits it. */

/** ANSI colours used by the demo; an empty text stays empty. */
export type Paint = (text: string, color: 'red' | 'green' | 'yellow' | 'cyan' | 'gray') => string;

const codes = { red: 31, green: 32, yellow: 33, cyan: 36, gray: 90 } as const;

/** Colours for a terminal, unless NO_COLOR (no-color.org) or a dumb terminal says otherwise. */
export function paintFor(stream: NodeJS.WriteStream): Paint {
  const colors = stream.isTTY && !process.env.NO_COLOR && process.env.TERM !== 'dumb';
  return colors ? (text, color) => `\x1b[${codes[color]}m${text}\x1b[39m` : (text) => text;
}

/** Says what is going on. */
export interface ProgressLine {
  /** Shows `text` instead of what was shown last. Cheap, to be called often. */
  show(text: string): void;
  /** Prints a line that stays. */
  print(text: string): void;
}

/** Where lines cannot be rewritten, progress is printed this often at most, milliseconds. */
const plainPeriod = 5_000;

/** One line rewritten in place on a terminal; elsewhere a line now and then. */
export function progressLine(stream: NodeJS.WriteStream): ProgressLine {
  if (!stream.isTTY) {
    let last = performance.now();
    return {
      show(text) {
        const now = performance.now();
        if (now - last < plainPeriod) return;
        last = now;
        stream.write(`  ${text}\n`);
      },
      print: (text) => void stream.write(`${text}\n`),
    };
  }
  return {
    // Cut to the width: a wrapped line cannot be rewritten.
    show: (text) => void stream.write(`\r\x1b[2K${text.slice(0, stream.columns - 1)}`),
    print: (text) => void stream.write(`\r\x1b[2K${text}\n`),
  };
}
