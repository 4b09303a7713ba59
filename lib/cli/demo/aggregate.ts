/** The aggregates of the job: TPC-H's query 1, in whole numbers, so that their order is no matter. */
import { dictionaries } from './dataset';
import { type RecordBlock, recordBytes, recordWords, word } from './lineitem';
import type { Aggregate } from './protocol';

/** Totals per return flag and line status. */
export class Aggregates {
  readonly #groups = dictionaries.l_returnflag.flatMap((returnflag) =>
    dictionaries.l_linestatus.map(
      (linestatus): Aggregate => ({
        returnflag,
        linestatus,
        rows: 0,
        quantity: 0,
        price: 0,
        discountedPrice: 0,
      }),
    ),
  );

  /** Adds the first `rows` records of `block`. */
  add({ words, bytes }: RecordBlock, rows: number): void {
    for (let row = 0; row < rows; row++) {
      const at = row * recordWords;
      const codes = row * recordBytes + word.codes * 4;
      const flag = bytes[codes] as number;
      const status = bytes[codes + 1] as number;
      const group = this.#groups[flag * dictionaries.l_linestatus.length + status] as Aggregate;
      const price = words[at + word.price] as number;
      group.rows++;
      group.quantity += words[at + word.quantity] as number;
      group.price += price;
      group.discountedPrice += price * (100 - (words[at + word.discount] as number));
    }
  }

  /** The groups that have rows. */
  result(): Aggregate[] {
    return this.#groups.filter((group) => group.rows > 0);
  }
}
