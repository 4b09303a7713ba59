import type { Cursor, CursorOrder } from './cursor';

/**
 * Merges sorted sequences: a tree of losers, which finds the next row with one comparison a level.
 *
 * Leaves are the cursors; each inner node keeps the loser of the comparison that was made there, and
 * node 0 the winner of all. After the winner has advanced only the comparisons on its own way up are
 * made again.
 */
export class Merge<C extends Cursor> {
  readonly #order: CursorOrder<C>;
  readonly #cursors: C[];
  readonly #ended: boolean[];
  /** Indices of cursors. */
  readonly #tree: Int32Array;
  #live: number;

  /** @param cursors each on its first row: loaded, and not at its end */
  constructor(cursors: readonly C[], order: CursorOrder<C>) {
    this.#cursors = [...cursors];
    this.#order = order;
    this.#live = cursors.length;
    this.#ended = cursors.map(() => false);
    this.#tree = new Int32Array(Math.max(1, cursors.length));
    this.#tree[0] = this.#build(1);
  }

  /** Loads `cursors` and merges those that have rows. Those that have none are closed. */
  static async of<C extends Cursor>(
    cursors: readonly C[],
    order: CursorOrder<C>,
  ): Promise<Merge<C>> {
    const live: C[] = [];
    for (const cursor of cursors) {
      if (await cursor.load()) live.push(cursor);
      else await cursor.close();
    }
    return new Merge(live, order);
  }

  /** The cursor on the next row; `undefined` when all rows are out. */
  get first(): C | undefined {
    return this.#live === 0 ? undefined : this.#cursors[this.#winner];
  }

  /** The cursors that have rows left, each on the first of them. */
  get cursors(): C[] {
    return this.#cursors.filter((_, index) => !this.#ended[index]);
  }

  /**
   * Goes on to the next row within what is in memory. False when the sequence it came from needs
   * {@link load} first.
   */
  advance(): boolean {
    if (!(this.#cursors[this.#winner] as C).advance()) return false;
    this.#replay();
    return true;
  }

  /** After {@link advance} has returned false. */
  async load(): Promise<void> {
    const winner = this.#winner;
    const cursor = this.#cursors[winner] as C;
    if (!(await cursor.load())) {
      this.#ended[winner] = true;
      this.#live -= 1;
      await cursor.close();
    }
    this.#replay();
  }

  /** Closes all cursors. */
  async close(): Promise<void> {
    for (const cursor of this.cursors) await cursor.close();
  }

  get #winner(): number {
    return this.#tree[0] as number;
  }

  /** Plays out the subtree of `node`, leaving losers; returns the winner. */
  #build(node: number): number {
    const leaves = this.#cursors.length;
    if (node >= leaves) return node - leaves;
    const left = this.#build(2 * node);
    const right = this.#build(2 * node + 1);
    const leftWins = this.#before(left, right);
    this.#tree[node] = leftWins ? right : left;
    return leftWins ? left : right;
  }

  #replay(): void {
    const tree = this.#tree;
    let winner = this.#winner;
    for (let node = (winner + this.#cursors.length) >> 1; node > 0; node >>= 1) {
      const loser = tree[node] as number;
      if (this.#before(loser, winner)) {
        tree[node] = winner;
        winner = loser;
      }
    }
    tree[0] = winner;
  }

  #before(a: number, b: number): boolean {
    if (this.#ended[a]) return false;
    if (this.#ended[b]) return true;
    const first = this.#cursors[a] as C;
    const second = this.#cursors[b] as C;
    const order = this.#order(first, second);
    return order < 0 || (!(order > 0) && first.rank < second.rank);
  }
}
