/** For `node --require oom-guard/register` and `node --import oom-guard/register`: silent. */
import { startCounting } from './counting';

startCounting();
