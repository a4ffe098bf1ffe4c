(* Reads one instance a line, prints its decision tree as JSON, one a line, and flushes.
     SCHEME vocab drafts length grid N_ROWS (context draft_row target_row)* [extras]
   a context is its length and its tokens; a rational is a/b; rows have `vocab` entries.
   extras of ranked_block: J pi0 NT ratio_edges N (context NT*J entries)*                            *)
open Oracle
let tokens = ref []
let next () = match !tokens with [] -> failwith "line too short" | t :: r -> tokens := r; t
let int () = int_of_string (next ())
let rational () =
  let s = next () in
  match String.split_on_char '/' s with
  | [a; b] -> fr (Big_int_Z.big_int_of_string a) (Big_int_Z.big_int_of_string b)
  | [a] -> fr (Big_int_Z.big_int_of_string a) (Big_int_Z.big_int_of_string "1")
  | _ -> failwith ("not a rational: " ^ s)
let rec repeat n f = if n = 0 then [] else let x = f () in x :: repeat (n - 1) f
let context () = repeat (int ()) int
let magic = Obj.magic
let answer line =
  tokens := List.filter (fun s -> s <> "") (String.split_on_char ' ' line);
  let scheme = next () in
  let vocab = int () in
  let k = int () in
  let l = int () in
  let g = Big_int_Z.big_int_of_string (next ()) in
  let row () = repeat vocab rational in
  let rows = repeat (int ()) (fun () ->
    let c = context () in let p = row () in let q = row () in (c, p, q)) in
  let (_, p, q) = List.hd rows in
  let vs = List.init vocab magic in
  let pd = magic (model (List.map (fun (c, p, _) -> (c, p)) rows) p) in
  let qt = magic (model (List.map (fun (c, _, q) -> (c, q)) rows) q) in
  let vs = magic vs in
  match scheme with
  | "maximal" -> tree_maximal vs pd qt k
  | "kseq" -> tree_kseq vs pd qt g k
  | "recursive_rejection" -> tree_recursive_rejection vs pd qt k
  | "without_replacement" -> tree_without_replacement vs pd qt k
  | "target_match" -> tree_target_match vs pd qt k
  | "canonical" | "transport" ->
    let rows = repeat (int ()) (fun () -> let c = context () in let r = row () in (c, r)) in
    tree_choose vs pd qt k (magic (model rows []))
  | "spechub" -> tree_spechub vs pd qt
  | "traversal" -> tree_traversal vs pd qt k l
  | "token_by_token" -> tree_token_by_token vs pd qt l
  | "block" -> tree_block vs pd qt l
  | "spectr" -> tree_spectr_kseq vs pd qt g k l
  | "spectr:recursive_rejection" -> tree_spectr_recursive_rejection vs pd qt k l
  | "spectr:target_match" -> tree_spectr_target_match vs pd qt k l
  | "kseq_block" -> tree_kseq_block vs pd qt g k l
  | "greedy_block" -> tree_greedy_block vs pd qt l
  | "spectr_gbv:unit" -> tree_spectr_gbv vs pd qt g k l true
  | "spectr_gbv:kseq" -> tree_spectr_gbv vs pd qt g k l false
  | "multipath" -> tree_multipath vs pd qt k l
  | "ranked_block" | "ranked_block:stateful" ->
    let j = int () in
    let pi0 = repeat j rational in
    let types = int () in
    let edges = repeat types rational in
    let proposals = repeat (int ()) (fun () ->
      let c = context () in let m = repeat types (fun () -> repeat j rational) in (c, m)) in
    (if scheme = "ranked_block" then tree_ranked_block else tree_ranked_block_stateful)
      vs pd qt k l j (magic (tab pi0)) (magic edges) (magic proposals)
  | _ -> failwith ("unknown scheme " ^ scheme)
let () =
  try
    while true do
      print_endline (answer (input_line stdin))
    done
  with End_of_file -> ()
