(* Reads one instance a line, prints its decision tree as JSON, one a line, and flushes.
     SCHEME vocab drafts length SECOND grid MODELS N_ROWS  and N_ROWS times
       context, MODELS draft rows, target row
   a context is its length and its tokens; a rational is a/b; rows have `vocab` entries. One model
   stands for all drafts. SECOND is the length of a
   second round, -1 for none. More follows
     for planned:       N, N times: context, M, M times: candidates, row
                        (planned/distinct: drafts without replacement)
     for ranked_block:  J, pi0, NT, ratio edges, N, N times: context, NT rows of J entries
   SCHEME/models: where one model has a program of its own.                                         *)
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
  let second = let l = int () in if l < 0 then None else Some l in
  let g = Big_int_Z.big_int_of_string (next ()) in
  let models = int () in
  let row () = repeat vocab rational in
  let rows = repeat (int ()) (fun () ->
    let c = context () in let ps = repeat models row in let q = row () in (c, ps, q)) in
  let (_, ps, q) = List.hd rows in
  let vs = magic (List.init vocab magic) in
  let of_model i p = model (List.map (fun (c, ps, _) -> (c, List.nth ps i)) rows) p in
  let pds = List.mapi of_model ps in
  let pds = magic (if models = 1 then List.init (max k 1) (fun _ -> List.hd pds) else pds) in
  let qt = magic (model (List.map (fun (c, _, q) -> (c, q)) rows) q) in
  match scheme with
  | "maximal" -> tree_maximal vs pds qt k
  | "kseq" -> tree_kseq vs pds qt g k
  | "recursive_rejection" -> tree_recursive_rejection vs pds qt k
  | "without_replacement" -> tree_without_replacement vs pds qt k
  | "target_match" -> tree_target_match vs pds qt k
  | "planned" | "planned/distinct" | "spectr:planned" ->
    let plan = repeat (int ()) (fun () ->
      let c = context () in
      let rows = repeat (int ()) (fun () -> let xs = context () in let r = row () in (xs, r)) in
      (c, rows)) in
    if scheme = "spectr:planned" then tree_spectr_planned vs pds qt k l (magic plan)
    else tree_planned vs pds qt k l (scheme = "planned/distinct") (magic plan)
  | "spechub" -> tree_spechub vs pds qt
  | "traversal" -> tree_traversal vs pds qt k l
  | "token_by_token" -> tree_token_by_token vs pds qt l
  | "block" -> tree_block vs pds qt l
  | "spectr" -> tree_spectr_kseq vs pds qt g k l
  | "spectr:recursive_rejection" -> tree_spectr_recursive_rejection vs pds qt k l
  | "spectr:target_match" -> tree_spectr_target_match vs pds qt k l
  | "spectr:without_replacement" -> tree_spectr_without_replacement vs pds qt k l
  | "spectr:distinct" -> tree_spectr_distinct vs pds qt k l
  | "kseq_block" -> tree_kseq_block vs pds qt g k l
  | "greedy_block" -> tree_greedy_block vs pds qt l second
  | "spectr_gbv:unit" -> tree_spectr_gbv_unit vs pds qt k l second
  | "spectr_gbv:kseq" -> tree_spectr_gbv_kseq vs pds qt g k l second
  | "multipath" -> tree_multipath vs pds qt k l
  | "ranked_block" | "ranked_block/models" | "ranked_block:stateful"
  | "ranked_block:stateful/models" ->
    let j = int () in
    let pi0 = magic (tab (repeat j rational)) in
    let types = int () in
    let edges = magic (repeat types rational) in
    let proposals = magic (repeat (int ()) (fun () ->
      let c = context () in let m = repeat types (fun () -> repeat j rational) in (c, m))) in
    (match scheme with
     | "ranked_block" -> tree_ranked_block vs pds qt k l j pi0 edges proposals
     | "ranked_block/models" -> tree_ranked_block_models vs pds qt k l j pi0 edges proposals
     | "ranked_block:stateful" ->
       tree_ranked_block_stateful vs pds qt k l j pi0 edges proposals second
     | _ -> tree_ranked_block_stateful_models vs pds qt k l j pi0 edges proposals second)
  | _ -> failwith ("unknown scheme " ^ scheme)
let () =
  try
    while true do
      print_endline (answer (input_line stdin))
    done
  with End_of_file -> ()
